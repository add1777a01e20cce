"""`kill -9` of a driver, a task or a lake server after each write in turn; what comes after it ends as it would have."""
