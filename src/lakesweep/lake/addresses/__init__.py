"""Where objects lie: slices of the namespace, and addresses outside it."""
