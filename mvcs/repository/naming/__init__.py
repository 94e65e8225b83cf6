"""Names of branches and tags, the reflog, and branches that go elsewhere with the folder behind them."""
