"""AgentBench (Liu et al. 2023, arXiv 2308.03688): DBBench on an embedded database or on MariaDB."""
