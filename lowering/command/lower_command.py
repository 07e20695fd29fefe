"""`lower`: exported methods → a program, and a report of what it needs at run time."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from torch.export import ExportedProgram

from ..errors import LoweringError
from ..files import replacing
from ..interchange import open_program
from ..model import Model
from ..recipe import ExportRecipe, ExportSession
from ..result_cache import FolderCache, caching
from .factories import load_weights, make_model
from .lower_config import LowerConfig, recipe_of
from .names import import_module
from .report import report


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--config", required=True, help="the configuration: a file, or JSON itself")
    parser.add_argument("--out", required=True, type=Path, help="where the program goes: a .pte")
    parser.add_argument(
        "--known", type=Path, metavar="DIR", help="edge programs and backends' results of before, as --keep left them"
    )
    parser.add_argument("--keep", metavar="DIR", help="where to keep those of now (~ is the home folder)")
    parser.add_argument("--report", required=True, type=Path, help="where the report goes: JSON")


def run(arguments: argparse.Namespace) -> None:
    """Lower. Raises LoweringError and InvalidFileError."""
    inline = arguments.config.lstrip().startswith("{")
    config = LowerConfig.parse(
        arguments.config if inline else Path(arguments.config).read_text(), "--config" if inline else arguments.config
    )
    for label, backend in config.backends.items():
        import_module(backend["module"], f"backend {label}")
    recipe = recipe_of(config)
    source = _source(config, recipe)
    session = ExportSession(source, export_recipe=recipe, constant_methods=config.constant_methods)
    _export(session, arguments, _origins(config, source))
    session.save_to_pte(arguments.out)
    with replacing(arguments.report) as temporary:
        text = json.dumps(report(session, arguments.out.stat().st_size), indent=1)
        temporary.write_text(text + "\n", encoding="utf-8")


def _export(session: ExportSession, arguments: argparse.Namespace, origins: list[tuple[ExportedProgram, str]]) -> None:
    """Run the session's stages; with folders to keep results in, say how many partitions were compiled.

    That is printed rather than put into the report, which is the same however much was known.
    """
    if arguments.keep is None or arguments.known is None:
        session.export()
        return
    with caching(FolderCache(arguments.known, Path(arguments.keep).expanduser())) as tally:
        tally.origins = {id(program): (program, origin) for program, origin in origins}
        session.export()
    if total := tally.preprocessed + tally.cached:
        partitions = f"{total} partition{'s' * (total != 1)}"
        print(f"{partitions}: {tally.preprocessed} preprocessed, {tally.cached} from the cache")


def _source(config: LowerConfig, recipe: ExportRecipe) -> dict[str, Model] | dict[str, ExportedProgram]:
    """What the recipe begins with: the methods as they were exported, or the model with the checkpoint's weights."""
    if recipe.starts_with_model:
        return _models(config)
    weights = [config.weights] if config.weights else []
    return {name: open_program(method.graph, [method.constants, *weights]) for name, method in config.methods.items()}


def _origins(
    config: LowerConfig, source: Mapping[str, Model] | Mapping[str, ExportedProgram]
) -> list[tuple[ExportedProgram, str]]:
    """Exported programs, each with the digest of what the configuration says of its way to an edge program."""
    origins = []
    for name, program in source.items():
        if isinstance(program, ExportedProgram):
            method = config.methods[name]
            how = json.dumps([method.lowering, config.backends, config.recipe, config.options], sort_keys=True)
            state = hashlib.sha256(how.encode())
            state.update(method.graph.read_bytes())
            origins.append((program, state.hexdigest()))
    return origins


def _models(config: LowerConfig) -> dict[str, Model]:
    """The model of each method; methods of one factory share it, so that what quantizes it does so once."""
    by_factory: dict[str, Model] = {}
    for name, method in config.methods.items():
        if method.model is None:
            raise LoweringError(f"the recipe begins with the model, and the configuration of {name!r} has no `model`")
        if method.model not in by_factory:
            model = make_model(method.model)
            if config.weights is not None:
                load_weights(model.module, config.weights)
            by_factory[method.model] = model
    return {name: by_factory[method.model] for name, method in config.methods.items() if method.model}
