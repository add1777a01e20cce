"""What tests stand on: reference model, strategies, builders, fault-injecting wrappers, real servers."""
