"""What runs leave for the next one, and how it is tidied up."""
