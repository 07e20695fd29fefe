"""Recipes that backends offer by name, each through a provider that registers itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recipe import ExportRecipe


class RecipeType(str, Enum):
    """Base of the enumerations in which backends name their recipes."""

    @classmethod
    @abstractmethod
    def get_backend_name(cls) -> str:
        """The backend whose recipes these are."""


class BackendRecipeProvider(ABC):
    """Makes a backend's recipes."""

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """The backend's name, as its RecipeType gives it."""

    @abstractmethod
    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """All recipes that there are."""

    @abstractmethod
    def create_recipe(self, recipe_type: RecipeType, **options: Any) -> ExportRecipe | None:
        """The recipe of that type, None where it is not supported."""

    def supports_recipe(self, recipe_type: RecipeType) -> bool:
        """Whether create_recipe makes it."""
        return recipe_type in self.get_supported_recipes()


class RecipeRegistry:
    """The providers of this process, by backend name."""

    def __init__(self) -> None:
        self._providers: dict[str, BackendRecipeProvider] = {}

    def register_backend_recipe_provider(self, provider: BackendRecipeProvider) -> None:
        """Make a provider known; registering its class again replaces nothing.

        Raises ValueError where another class provides for the same backend.
        """
        known = self._providers.setdefault(provider.backend_name, provider)
        if type(known) is not type(provider):
            other = type(known).__name__
            raise ValueError(f"recipes of backend {provider.backend_name!r} are already provided by {other}")

    def create_recipe(self, recipe_type: RecipeType, **options: Any) -> ExportRecipe:
        """The recipe of that type.

        Raises LookupError where no provider is registered for its backend, or the provider lacks it.
        """
        name = recipe_type.get_backend_name()
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(sorted(self._providers)) or "none"
            raise LookupError(f"no provider of recipes for backend {name!r} is registered (registered: {known})")
        recipe = provider.create_recipe(recipe_type, **options) if provider.supports_recipe(recipe_type) else None
        if recipe is None:
            raise LookupError(f"backend {name!r} has no recipe {recipe_type.value!r}")
        return recipe

    def get_supported_recipes(self, backend: str) -> Sequence[RecipeType]:
        """A backend's recipes; none for a backend without a provider."""
        provider = self._providers.get(backend)
        return provider.get_supported_recipes() if provider else []

    def list_backends(self) -> list[str]:
        """Backends with a provider, by name."""
        return sorted(self._providers)


recipe_registry = RecipeRegistry()
