#!/bin/bash
# The part of build.sh that runs inside the image, as its root, without a network.
# /mnt/wheels holds the downloaded packages, /mnt/source this folder; both are gone afterwards.
set -euo pipefail

venv=/opt/venv
site=$venv/lib/python3.13/site-packages

# The base environment, and the parts of Debian that a sandbox has no use for removed.
make_venv() {
	python3.13 -m venv --without-pip "$venv"
	PYTHONPATH=$(echo /mnt/wheels/pip-*.whl) "$venv/bin/python" -m pip install \
		--no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
		--find-links /mnt/wheels -r /mnt/source/requirements.txt

	# Not for the sandbox to change, so not in the environment.
	mkdir -p /opt/tools
	unzip -q -j /mnt/wheels/uv-*.whl '*/scripts/uv' -d /opt/tools
	chmod 755 /opt/tools/uv

	# The big packages bring their own tests: a fifth of the files, never imported by the rest.
	local package
	for package in numpy pandas scipy sklearn sympy matplotlib; do
		find "$site/$package" -depth -type d -name tests -exec rm -r {} +
	done

	# A sandbox could not keep the bytecode it compiles, so compile everything now.
	"$venv/bin/python" -m compileall -q -j0 "$site"
	python3.13 -m compileall -q -j0 /usr/lib/python3.13 /usr/lib/python3

	# There is no root in a sandbox, so nothing of apt is of use; dpkg's list of packages stays
	# for scanners.
	rm -rf /etc/apt /var/lib/apt /var/cache/* /var/log/* /var/backups/* /var/lib/dpkg/*-old
	rm -rf /var/tmp
	ln -s /tmp /var/tmp # one place for temporary files, so one limit
}

make_user() {
	sed -i '/^user:/d' /etc/passwd /etc/group
	echo 'user:x:1000:1000::/home/user:/bin/bash' >>/etc/passwd
	echo 'user:x:1000:' >>/etc/group
	mkdir -p /home/user
	echo sandbox >/etc/hostname
	printf '127.0.0.1 localhost sandbox\n::1 localhost\n' >/etc/hosts
	rm -f /etc/resolv.conf
	: >/etc/resolv.conf # there is no network
	: >/etc/machine-id
}

# Have matplotlib load husk_fonts, and build its font cache, which takes seconds in a sandbox.
add_fonts() {
	install -m 644 /mnt/source/fonts.py "$site/husk_fonts.py"
	local hook='__import__("husk_fonts").extend(fontManager)  # added by Husk, see that module'
	grep -qxF "$hook" "$site/matplotlib/font_manager.py" ||
		echo "$hook" >>"$site/matplotlib/font_manager.py"
	python -m compileall -q "$site/husk_fonts.py" "$site/matplotlib/font_manager.py"
	python -c 'import matplotlib.font_manager'
}

# Have altair send its MIME bundle, as plotly is told in `environment`: its own choice is a page that
# loads its libraries from the network. It knows no variable for this. The name of the type must end
# in +json for viewers and for nbformat; altair 6 writes .json.
set_altair() {
	local display hook
	hook='VEGALITE_MIME_TYPE = VEGALITE_MIME_TYPE.replace(".json", "+json"); renderers.enable("mimetype")  # added by Husk'
	for display in "$site"/altair/vegalite/v*/display.py; do
		grep -qxF "$hook" "$display" || echo "$hook" >>"$display"
		python -m compileall -q "$display"
	done
}

# pip and uv ask the service, whichever way they are called; see pip.c. `python -m pip` too.
add_pip() {
	local name hook
	mkdir /opt/husk/bin /opt/husk/wheels
	install -m 755 /mnt/wheels/programs/pip /mnt/wheels/programs/husk-venv /opt/husk/bin/
	ln -s pip /opt/husk/bin/pip3
	ln -s pip /opt/husk/bin/uv
	for name in pip pip3 pip3.13; do
		ln -sf /opt/husk/bin/pip "$venv/bin/$name"
	done
	hook='import os, sys; "HUSK_REAL_PIP" in os.environ or os.execv("/opt/husk/bin/pip", ["pip", *sys.argv[1:]])  # added by Husk'
	grep -qxF "$hook" "$site/pip/__main__.py" || sed -i "1i $hook" "$site/pip/__main__.py"
	"$venv/bin/python" -m compileall -q "$site/pip/__main__.py"
}

finish() {
	rm -rf /opt/husk
	mkdir /opt/husk
	install -m 644 /mnt/source/kernel.py /mnt/source/zygote.py /opt/husk/
	# Modules of the kernel. The user may have a streams.py too, so they have longer names.
	local module
	for module in executions packages publisher shell_stream streams whole_text; do
		install -m 644 "/mnt/source/$module.py" "/opt/husk/husk_$module.py"
	done
	grep -E '^[A-Z]' /mnt/source/environment >/opt/husk/environment
	add_pip
	install -m 644 /mnt/source/profile /etc/profile
	"$venv/bin/python" -m compileall -q /opt/husk

	# From here on with the environment a sandbox has, so that what is prepared is what is found.
	local line
	while read -r line; do
		export "${line?}"
	done </opt/husk/environment

	rm -rf "$venv/share/husk"
	mkdir -p "$MPLCONFIGDIR" "$IPYTHONDIR"
	install -m 644 /mnt/source/matplotlibrc "$MPLCONFIGDIR/matplotlibrc"
	add_fonts
	set_altair
	HOME=/mnt python -m IPython profile create default

	python - "$1" >/opt/husk/image.json <<-'PY'
		import datetime, importlib.metadata, json, platform, sys
		print(json.dumps({
		    "python": platform.python_version(),
		    "ipykernel": importlib.metadata.version("ipykernel"),
		    "debian": "trixie",
		    "base": sys.argv[1],
		    "built_at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
		}))
	PY
	echo "$1" >/opt/husk/base

	# Through its overlay every sandbox installs into its own copy of this.
	chmod -R a+rwX "$venv"
}

case $1 in
venv)
	make_venv
	make_user
	;;
finish) finish "$2" ;;
esac
