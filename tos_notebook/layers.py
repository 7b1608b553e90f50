"""Keras layers for what one machine does not hold."""

from __future__ import annotations

from .program.keras.served_embedding import ServedEmbedding

__all__ = ["ServedEmbedding"]
