# Writes OUTPUT, the source file of policy::builtin_policies(), from FILES, a list of
# .../NAME/policy.lua.
set(entries "")
list(SORT FILES)
foreach(file IN LISTS FILES)
  file(READ ${file} source)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(name ${folder} NAME)
  string(APPEND entries
    "    {\"${name}\", \"${name}/policy.lua\", R\"moonfence(${source})moonfence\"},\n")
endforeach()
list(LENGTH FILES count)
file(WRITE ${OUTPUT} "#include \"policy/builtin.h\"

#include <array>

namespace moonfence::policy {
namespace {

constexpr std::array<BuiltinPolicy, ${count}> kPolicies = {{
${entries}}};

}  // namespace

std::span<const BuiltinPolicy> builtin_policies() {
  return kPolicies;
}

}  // namespace moonfence::policy
")
