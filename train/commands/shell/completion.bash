# bash completion of saccade
_saccade() {
  local line=${COMP_LINE:0:COMP_POINT} words=() word= before= opened= quote= in_word= path i c
  for ((i = 0; i < ${#line}; ++i)); do
    c=${line:i:1}
    case "$quote:$c" in
      "':'" | '":"') quote= ;;
      '":\') [[ ${line:i+1:1} == [\"\\\$\`] ]] && c=${line: ++i:1}; word+=$c ;;
      "':"* | '":'*) word+=$c ;;
      :\' | :\") quote=$c in_word=1 opened=$word ;;
      :\\) word+=${line: ++i:1} in_word=1 ;;
      :[[:space:]]) [[ $in_word ]] && words+=("$word"); word= before= in_word= ;;
      *) word+=$c in_word=1; [[ $c == [=:] ]] && before=$word ;;
    esac
  done
  words+=("$word")
  mapfile -t COMPREPLY < <("${words[0]}" --complete "${words[@]}" 2> /dev/null)
  path=${word#--*=}
  case "${COMPREPLY[*]}" in
    FILES) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$path") ;;
    FOLDERS) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$path") ;;
    *) path=$word ;;
  esac
  # A word begins after "=", ":" and an open quote for bash, which puts the answer in place of what comes after them.
  [[ $quote ]] && before=$opened
  for i in "${!COMPREPLY[@]}"; do
    c=${word%"$path"}${COMPREPLY[i]}
    COMPREPLY[i]=${c#"$before"}
  done
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[.=] ]] && compopt -o nospace
}
complete -F _saccade saccade
