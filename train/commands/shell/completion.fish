# fish completion of saccade
function __saccade_complete
    set -l words (commandline -opc)
    set -l answers ($words[1] --complete $words (commandline -ct) 2> /dev/null)
    switch "$answers"
        case FILES
            __fish_complete_path (commandline -ct)
        case FOLDERS
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\n' $answers
    end
end
complete -c saccade -f -a '(__saccade_complete)'
