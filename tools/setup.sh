#!/bin/sh
# Find a Python that fits and hand over to setup.py. Nothing but sh is assumed.
#   PYTHON=/path/to/python3.12 make test     uses that one
set -u
here=$(cd "$(dirname "$0")" && pwd)

fits() {
  # pyenv's shims exist for versions that are not switched on, so only running one tells.
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
  fits "$PYTHON" && exec "$PYTHON" "$here/setup.py" "$@"
  echo "setup: PYTHON=$PYTHON is not a working Python 3.11, 3.12 or 3.13. Nothing was changed." >&2
  exit 2
fi

for candidate in python3 python3.13 python3.12 python3.11 python \
    "$HOME"/.pyenv/versions/3.1[123].*/bin/python3 \
    "$HOME"/.local/share/uv/python/cpython-3.1[123]*/bin/python3 \
    /opt/*/bin/python3.1[123] /usr/local/bin/python3.1[123]; do
  command -v "$candidate" >/dev/null 2>&1 && fits "$candidate" && exec "$candidate" "$here/setup.py" "$@"
done

found=$(python3 --version 2>/dev/null || echo "no python3 at all")
cat >&2 <<MESSAGE
setup: lakesweep needs Python 3.11, 3.12 or 3.13, and this machine has $found. Nothing was changed.
Any of these brings one; only the first needs root:
  your system's package (Debian, Ubuntu: python3 python3-venv)
  pyenv install 3.12
  uv python install 3.12
Then run make again, or name it: make PYTHON=/path/to/python3.12 test
MESSAGE
exit 2
