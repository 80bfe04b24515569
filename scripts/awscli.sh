# Sourced: Amazon's own command-line tool, of one version, from PyPI, in a
# folder of its own.

awscli_version=1.46.2

# awscli: sets aws to the program's path; it is installed if it is not there.
awscli() {
    local folder=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}/awscli-$awscli_version
    aws=$folder/bin/aws
    [ ! -e "$folder/complete" ] || return 0
    echo "installing awscli $awscli_version" >&2
    rm -rf "$folder"
    # Debian's Python: another one may go away under it.
    /usr/bin/python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "awscli==$awscli_version"
    touch "$folder/complete"
}
