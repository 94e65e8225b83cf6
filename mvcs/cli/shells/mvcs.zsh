#compdef mvcs
# Completion of mvcs for zsh; `mvcs completion zsh` prints this.
_mvcs() {
    local kind value about
    local -a answer wholes whole_texts parts part_texts
    answer=("${(@f)$(_MVCS_COMPLETE=zsh_complete COMP_WORDS="${words[1,CURRENT-1]} $QIPREFIX$PREFIX" \
        ${(Q)~words[1]} 2>/dev/null)}")
    for kind value about in "${answer[@]}"; do
        case "$kind" in
            plain) wholes+=("$value"); whole_texts+=("$value${about:+  -- $about}") ;;
            part) parts+=("$value"); part_texts+=("$value${about:+  -- $about}") ;;
            file) _files ;;
            dir) _files -/ ;;
        esac
    done
    (( $#wholes )) && compadd -l -V mvcs -d whole_texts -a wholes
    (( $#parts )) && compadd -l -V mvcs -S '' -d part_texts -a parts
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _mvcs "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _mvcs mvcs
fi
