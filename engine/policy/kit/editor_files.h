#pragma once

// What helps to write policies, printed from the tables that the sandbox is made of: annotations
// for lua-language-server, its configuration, luacheck's, and the reference page.

#include <string>

namespace moonfence::policy {

[[nodiscard]] std::string lua_annotations();  // lib/fence.lua
[[nodiscard]] std::string luarc();            // .luarc.json
[[nodiscard]] std::string luacheckrc();       // .luacheckrc
[[nodiscard]] std::string reference_page();   // docs/policy-api.md

}  // namespace moonfence::policy
