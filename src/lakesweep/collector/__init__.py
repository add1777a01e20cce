"""The collector: mark → plan → sweep, copies, and the records that they leave, for every catalog."""
