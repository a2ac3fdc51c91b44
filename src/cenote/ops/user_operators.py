"""Decoders of operators from outside the package, for front ends."""

from __future__ import annotations

from collections.abc import Mapping

from cenote.core.extensions.classes import OperatorClass
from cenote.core.extensions.registry import UserOperator, decoded_as, installed_operator, with_registered
from cenote.ops.base import Decoder
from cenote.ops.user_function import decoder_of


class UserOperators:
    """Operators that decode nodes of the user's while one model is read, and which of them it has used.

    `given` are those of the load and the registered ones: they win over functions of the model and over Cenote's own.
    Those of installed extensions come last, and are imported when a name is not known otherwise.
    """

    def __init__(self, given: Mapping[str, UserOperator]) -> None:
        self._given = {decoded_as(name): (name, each) for name, each in given.items()}
        self._decoders: dict[str, Decoder] = {}
        self.used: dict[str, str] = {}
        """Digests by name."""
        self.consulted = False
        """Whether the front end decodes nodes by them: that of ONNX does."""

    @staticmethod
    def registered() -> UserOperators:
        """Return the operators that this process has registered."""
        return UserOperators(with_registered({}))

    def decoder(self, key: str) -> Decoder | None:
        """Return the decoder of an operator of the load, or a registered one, by its name for decoders; None for
        another."""
        found = self._given.get(key)
        return None if found is None else self._made(key, *found)

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def installed(self, key: str) -> Decoder | None:
        """Return the decoder of an operator of an installed extension; None where none has it."""
        found = installed_operator(key)
        return None if found is None else self._made(key, key, found)

    def _made(self, key: str, name: str, operator: UserOperator) -> Decoder:
        if key not in self._decoders:
            if isinstance(operator, OperatorClass):
                self._decoders[key] = operator.decoder(name)
            else:
                self._decoders[key] = decoder_of(name, operator)
            self.used[name] = operator.digest
        return self._decoders[key]
