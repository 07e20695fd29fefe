"""The encoder-decoder that turns written dates into ISO 8601, whole: as it is trained, and as one model."""

from __future__ import annotations

from decoder import DateDecoder, Decoder, decode_method
from embedding import character_embedding
from encoder import DateEncoder, Encoder, encode_method
from rules_executorch.lowering.model import Model
from torch import nn


class EncoderDecoder(DateEncoder, DateDecoder):
    """Both methods, with one embedding. Its parameters are named as in either part, so one checkpoint fits all."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.embedding = character_embedding()
        self.encoder = Encoder()
        self.decoder = Decoder()


def encoder_decoder() -> Model:
    """Both methods as one model."""
    return Model(EncoderDecoder(), {"encode": encode_method(), "decode": decode_method()})
