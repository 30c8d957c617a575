#!/usr/bin/env bash
# Fails on anything that shellcheck finds in the shell scripts, and ruff (ruff.toml) in the Python scripts,
# and on a script with a first line "#!/" that is not executable.
set -euo pipefail
cd "$(dirname "$0")/../.."

for tool in shellcheck .cache/ruff/bin/ruff; do
  command -v "$tool" > /dev/null || { echo "error: check_scripts.sh: no $tool; run scripts/setup.sh --checks" >&2; exit 1; }
done
mapfile -t shell < <(git ls-files -- .ci/run '*.sh')
# SC2317, unreachable code: it does not see functions that are called through a variable.
shellcheck --exclude=SC2317 "${shell[@]}"
# `local word= quote=` sets both to nothing, and a backslash in quotes stands for itself.
shellcheck --shell=bash --exclude=SC1003,SC1007 train/commands/shell/completion.bash
mapfile -t python < <(git ls-files -- '*.py')
.cache/ruff/bin/ruff check -q "${python[@]}"
status=0
for script in "${shell[@]}" "${python[@]}"; do
  if [ "$(head -c 3 "$script")" = '#!/' ] && [ ! -x "$script" ]; then
    echo "error: check_scripts.sh: $script begins with #!/ but is not executable" >&2
    status=1
  fi
done
[ $status = 0 ] || exit $status
echo "scripts: ${#shell[@]} of the shell and ${#python[@]} of Python are clean"
