# Completion of mvcs for fish; `mvcs completion fish` prints this.
function __mvcs_complete
    set -l line (commandline -cp)
    for answer in (_MVCS_COMPLETE=fish_complete COMP_WORDS="$line" mvcs 2>/dev/null)
        set -l found (string split -m 1 , -- $answer)
        switch $found[1]
            case file
                __fish_complete_path (commandline -ct)
            case dir
                __fish_complete_directories (commandline -ct)
            case '*'
                echo -- $found[2]
        end
    end
end
complete --command mvcs --no-files --keep-order --arguments '(__mvcs_complete)'
