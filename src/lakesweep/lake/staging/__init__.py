"""What is written and not committed: a branch's staging area, and throwing it away."""
