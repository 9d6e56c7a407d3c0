# SPDX-License-Identifier: MIT OR Apache-2.0
# Completion of harness's command line in bash: harness itself is asked. In ~/.bashrc: source <(harness completions bash)
_harness() {
    local end=$'\013' words=() at=0 index word reply
    # bash splits words at : and =, which are parts of names and places: they are joined again.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if ((index > 1)) && [[ $word == [:=]* || ${COMP_WORDS[index - 1]} == *[:=] ]]; then
            words[at]+=$word
        else
            at=${#words[@]}
            words[at]=$word
        fi
    done
    # A name that an earlier completion has quoted.
    words[at]=${words[at]//[\\\'\"]/}
    local begun=
    [[ ${words[at]} == *[:=]* ]] && begun=${words[at]%"${words[at]##*[:=]}"}
    COMPREPLY=()
    while IFS= read -r -d "$end" reply || [[ -n $reply ]]; do
        # bash replaces only what comes after the last : or =.
        printf -v reply %q "${reply#"$begun"}"
        COMPREPLY+=("$reply")
    done < <(_CLAP_IFS=$end _CLAP_COMPLETE_INDEX=$at HARNESS_COMPLETE=bash "$1" -- "${words[@]}" 2>/dev/null)
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -F _harness harness
