#compdef saccade
# zsh completion of saccade
_saccade() {
  local -a answers
  answers=("${(@f)$("$words[1]" --complete "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}")
  [[ $answers == (FILES|FOLDERS) && $words[CURRENT] == --*=* ]] && compset -P 1 '*='
  case "$answers" in
    FILES) _files ;;
    FOLDERS) _files -/ ;;
    *) local -a open=(${(M)answers:#*[.=]}) closed=(${answers:#*[.=]})
       compadd -S '' -- $open; compadd -- $closed ;;
  esac
}
if [ "$funcstack[1]" = _saccade ]; then _saccade "$@"; else compdef _saccade saccade; fi
