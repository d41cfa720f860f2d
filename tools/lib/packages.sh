# install_packages: sees to the packages of tools/lib/packages.txt.

# Prints the packages that are missing, one a line.
missing_packages() {
  local wanted installed
  wanted="$(sed 's/#.*//' tools/lib/packages.txt | tr -s ' \n' '\n' | sed '/^$/d' | sort -u)"
  # dpkg-query fails when it does not know one of them; what it prints is right all the same.
  # shellcheck disable=SC2086
  installed="$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p' | sort -u)" || true
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    command -v bazel >/dev/null ||
      die "this is no Debian or Ubuntu machine and has no bazel; install what corresponds to" \
        "tools/lib/packages.txt by hand"
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0

  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  if [[ $(id -u) -ne 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      say "packages are missing, and installing them takes root's rights. Run"
      printf '\n    sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n\n' \
        "${missing[*]}"
      die "then start this command again"
    fi
    apt=(sudo -n "${apt[@]}")
  fi

  say "installing ${#missing[@]} packages: ${missing[*]}"
  # The lists of a fresh machine are empty or old; where they serve, updating them only costs time.
  local log
  log="$(mktemp)"
  if ! "${apt[@]}" install -y -q --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1 &&
    ! { "${apt[@]}" update -q </dev/null >>"$log" 2>&1 &&
      "${apt[@]}" install -y -q --no-install-recommends "${missing[@]}" </dev/null >>"$log" 2>&1; }
  then
    tail -n 30 "$log" >&2
    die "apt-get could not install the packages (the whole log: $log)"
  fi
  rm -f "$log"
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -eq 0 ]] || die "still missing after apt-get: ${missing[*]}"
}
