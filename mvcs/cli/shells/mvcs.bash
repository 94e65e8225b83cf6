# Completion of mvcs for bash, also as old as 3.2; `mvcs completion bash` prints this.
_mvcs() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case "$kind" in
            plain) COMPREPLY+=("$value ") ;;
            part) COMPREPLY+=("$value") ;;
            file) compopt -o default +o nospace 2>/dev/null || COMPREPLY+=($(compgen -f -- "$2")) ;;
            dir) compopt -o dirnames +o nospace 2>/dev/null || COMPREPLY+=($(compgen -d -- "$2")) ;;
        esac
    done < <(_MVCS_COMPLETE=bash_complete COMP_WORDS="${COMP_LINE:0:$COMP_POINT}" \
        COMP_WORDBREAKS="$COMP_WORDBREAKS" "$1" 2>/dev/null)
}
complete -o nospace -F _mvcs mvcs
