"""The example model as it is built: what its program holds, and what a change builds again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rules_executorch.lowering.format.read import read_pte
from safetensors.torch import load_file
from support.build_command import counts

from .conftest import MODELS, Monorepo, copy_monorepo

PROGRAM = "build-out/models/encoder_decoder.pte"


@contextmanager
def changed(file: Path, old: str, new: str) -> Iterator[None]:
    """`file` with its one `old` replaced, for a while."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    try:
        yield
    finally:
        file.write_text(text)


def mnemonics(output: str) -> list[str]:
    """The mnemonics of the actions that ran, sorted."""
    return sorted(re.findall(r"^\[\d+/[\d?]+\] (\w+)", output, flags=re.MULTILINE))


def test_the_examples_own_tests_pass(monorepo: Monorepo) -> None:
    """Both methods agree with eager to 1e-4 over 200 real inputs; 98 % of the held-out dates are exact."""
    result = monorepo.build("test", "//...", "--test_output=all")
    assert "encode: ok on 200 inputs" in result.stdout + result.stderr
    assert "decode: ok on 200 inputs" in result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "2 passed, 0 failed"


def test_each_method_is_delegated_to_its_backend(monorepo: Monorepo) -> None:
    """XNNPACK has no embedding: this one operator of `decode` is left to the runtime's own kernel."""
    plans = {plan.name: plan for plan in read_pte(monorepo.root / PROGRAM).program.execution_plan}
    assert {name: [delegate.id for delegate in plan.delegates] for name, plan in plans.items()} == {
        "decode": ["XnnpackBackend"],
        "encode": ["ReferenceBackend"],
    }
    assert [str(operator) for operator in plans["decode"].operators] == ["aten::embedding.out"]
    assert not plans["encode"].operators


def test_delegates_and_kernels_share_each_weight(monorepo: Monorepo) -> None:
    """Also that of the embedding, which one delegate, another and the runtime's own kernel use."""
    content = (monorepo.root / PROGRAM).read_bytes()
    weights = load_file(MODELS / "dates.safetensors")
    assert content.count(weights["embedding.weight"].numpy().tobytes()) == 1
    assert content.count(weights["decoder.reset.weight"].numpy().tobytes()) == 1
    all_weights = sum(weight.numel() * weight.element_size() for weight in weights.values())
    assert len(content) < all_weights + weights["embedding.weight"].numel() * 4


def test_a_character_in_decodes_code_exports_decode_and_lowers(monorepo: Monorepo) -> None:
    encode = monorepo.root / "build-out/models/encoder_decoder.encode.edge"
    decode = monorepo.root / "build-out/models/encoder_decoder.decode.edge"
    before = encode.stat().st_mtime_ns, decode.read_bytes()
    with changed(monorepo.root / "models/decoder.py", "torch.tanh(self.query", "torch.sin(self.query"):
        result = monorepo.build("//models:encoder_decoder")
        assert mnemonics(result.stdout + result.stderr).count("ExportMethod") == 1
        assert mnemonics(result.stdout + result.stderr).count("LowerModel") == 1
        assert decode.read_bytes() != before[1]
        assert encode.stat().st_mtime_ns == before[0]
    assert counts(monorepo.build("//models:encoder_decoder"))[0] == 0


def test_a_comment_in_the_app_compiles_and_links_the_app_only(monorepo: Monorepo) -> None:
    with changed(monorepo.root / "apps/normalize_date.cc", "constexpr int64_t kEnd", "// Ends.\nconstexpr int64_t kEnd"):
        result = monorepo.build("//apps:normalize_date")
        assert set(mnemonics(result.stdout + result.stderr)) <= {"CppCompile", "CppLink"}
        assert counts(result)[0] <= 2
    monorepo.build("//apps:normalize_date")


def test_another_folder_and_an_empty_cache_give_the_same_bytes(monorepo: Monorepo, tmp_path: Path) -> None:
    other = copy_monorepo(tmp_path / "elsewhere" / "a checkout", tmp_path / "cache")
    other.build("//models:encoder_decoder", "//apps:normalize_date")
    for name in (PROGRAM, "build-out/apps/normalize_date"):
        assert (other.root / name).read_bytes() == (monorepo.root / name).read_bytes(), name


def test_without_build_out_everything_comes_from_the_cache(monorepo: Monorepo) -> None:
    monorepo.build("//...")
    monorepo.build("clean")
    assert not (monorepo.root / PROGRAM).exists()
    assert counts(monorepo.build("//..."))[0] == 0
    assert (monorepo.root / PROGRAM).exists()
