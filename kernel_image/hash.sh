#!/bin/bash
# Print a short hash of everything that decides what is in the image: `build.sh IMAGES/$(hash.sh)`.
# With --base, leave out the files that are only copied into it at the end; two images with the
# same base hash differ in nothing else, so build.sh makes one from the other in seconds.
set -euo pipefail
cd "$(dirname "$0")"

base=(build.sh inside.sh packages.txt requirements.txt tools.txt)
late=(environment executions.py fonts.py kernel.py matplotlibrc packages.py pip.c profile publisher.py shell_stream.py streams.py venv.c
	venv_journal.c venv_journal.h venv_text.c venv_text.h whole_text.py zygote.py ../include/husk/package_protocol.h)

files=("${base[@]}")
[ "${1-}" = --base ] || files+=("${late[@]}")

# The owner's id is part of the tree. An ordinary user's build gets it from /etc/subuid.
if [ "$(id -u)" = 0 ]; then
	owner=${HUSK_ID_BASE:-2000000000}
else
	owner=$(grep -m1 "^$(id -un):" /etc/subuid || true)
fi

{
	uname -m
	echo "$owner"
	sha256sum "${files[@]}"
} | sha256sum | cut -c1-12
