"""Online hard delete: objects that lost their last reference go while people work; what would revive them is refused."""
