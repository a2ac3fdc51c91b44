"""Types, errors, the target machine and settings: what every other package stands on."""
