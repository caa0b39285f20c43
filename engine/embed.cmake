# Writes OUTPUT, the source of functions that HEADER declares in moonfence::NAMESPACE: for each of FUNCTIONS one that gives
# the text of the file at its place in FILES; with TYPE one function for all of them, a span of {name, text} in the order
# of their names. A file that is called policy.lua or fencer.lua has the name of its folder; with BELOW each has its path
# below that folder.
set(constants "")
set(definitions "")
if(TYPE)
  list(SORT FILES)
  list(LENGTH FILES count)
  foreach(file IN LISTS FILES)
    file(READ ${file} text)
    get_filename_component(name ${file} NAME_WE)
    if(BELOW)
      file(RELATIVE_PATH name ${BELOW} ${file})
    elseif(name STREQUAL "policy" OR name STREQUAL "fencer")
      get_filename_component(folder ${file} DIRECTORY)
      get_filename_component(name ${folder} NAME)
    endif()
    string(APPEND constants "    {\"${name}\", R\"moonfence(${text})moonfence\"},\n")
  endforeach()
  set(constants "// Not constexpr: compilers count the steps of long texts, and give up.\nconst std::array<${TYPE}, ${count}> kAll = {{\n${constants}}};\n")
  set(definitions "std::span<const ${TYPE}> ${FUNCTIONS}() {\n  return kAll;\n}\n\n")
else()
  foreach(function file IN ZIP_LISTS FUNCTIONS FILES)
    file(READ ${file} text)
    string(APPEND constants "constexpr std::string_view ${function}_text = R\"moonfence(${text})moonfence\";\n")
    string(APPEND definitions "std::string_view ${function}() {\n  return ${function}_text;\n}\n\n")
  endforeach()
endif()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

#include <array>

namespace moonfence::${NAMESPACE} {
namespace {

${constants}
}  // namespace

${definitions}}  // namespace moonfence::${NAMESPACE}
")
