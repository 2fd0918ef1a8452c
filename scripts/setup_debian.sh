#!/usr/bin/env bash
# Installs what building needs on Debian 12 or Ubuntu 24.04; --cross adds the compiler for the other platform.
set -euo pipefail

packages=(git make cmake g++ python3 python3-venv ninja-build ccache)
if [ "${1:-}" = --cross ]; then
	case "$(uname -m)" in
	aarch64) packages+=(g++-x86-64-linux-gnu) ;;
	x86_64) packages+=(g++-aarch64-linux-gnu) ;;
	esac
fi
sudo=()
if [ "$(id -u)" != 0 ]; then
	sudo=(sudo)
fi
"${sudo[@]}" apt-get update
"${sudo[@]}" apt-get install -y --no-install-recommends "${packages[@]}"
