"""Operators from outside the package: functions of users, by the names of their operators."""
