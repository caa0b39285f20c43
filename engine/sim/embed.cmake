# Writes OUTPUT, the source file of sim::builtin_scenarios(), from FILES, a list of .../NAME.txt.
set(entries "")
list(SORT FILES)
foreach(file IN LISTS FILES)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME_WE)
  string(APPEND entries "    {\"${name}\", R\"moonfence(${text})moonfence\"},\n")
endforeach()
list(LENGTH FILES count)
file(WRITE ${OUTPUT} "#include \"sim/builtin_scenarios.h\"

#include <array>

namespace moonfence::sim {
namespace {

constexpr std::array<BuiltinScenario, ${count}> kScenarios = {{
${entries}}};

}  // namespace

std::span<const BuiltinScenario> builtin_scenarios() {
  return kScenarios;
}

}  // namespace moonfence::sim
")
