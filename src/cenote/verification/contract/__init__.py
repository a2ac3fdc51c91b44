"""The contract of operators, checked by their samples: what the tests hold Cenote's own to, and users theirs."""
