# Sourced: prints phases with the time that each took.

phase_name=
phase_start=

phases_end() {
    if [ -n "$phase_name" ]; then
        printf '   %s: %ss\n' "$phase_name" $((SECONDS - phase_start))
    fi
    phase_name=
}

phase() {
    phases_end
    phase_name=$1
    phase_start=$SECONDS
    printf '== %s\n' "$1"
}
