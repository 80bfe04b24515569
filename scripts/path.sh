# Sourced: the places of the system's programs, which a login without a full
# environment leaves out.
PATH=$PATH:/usr/sbin:/sbin
export PATH
