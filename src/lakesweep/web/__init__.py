"""The pages: what runs found and did, in a browser. They start marks, and sweep a plan whose id the user types."""
