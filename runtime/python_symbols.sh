# Writes assembly that defines every symbol of Python that the given shared libraries lack.
#
# Their initialisers only follow pointers through Python's type objects (PyTuple_Type.tp_as_sequence
# and the like) and keep what they find. So all symbols are one block of pointers to itself:
# wherever an initialiser looks, it finds something that can be read. A call ends in SIGSEGV, as
# the block cannot be executed.
set -eu

undefined=$(nm -D --undefined-only "$@") # by itself, so that its failure ends this

echo '    .data'
echo '    .balign 8'
echo 'python_symbols:'
echo '    .rept 512'
echo '    .quad python_symbols'
echo '    .endr'
printf '%s\n' "$undefined" | awk '$1 == "U" && $2 ~ /^_?Py/ { print $2 }' | LC_ALL=C sort -u | while read -r symbol; do
    echo "    .globl $symbol"
    echo "    .set $symbol, python_symbols"
done
echo '    .section .note.GNU-stack,"",@progbits'
