#include <algorithm>
#include <array>
#include <utility>

#include "app/policy_commands/policy_command.h"
#include "base/text.h"
#include "os/tools/folders.h"
#include "policy/bundle/builtin.h"
#include "policy/cases/test_subject.h"
#include "policy/kit/editor_files.h"
#include "policy/kit/policy_page.h"
#include "policy/kit/shipped.h"

namespace moonfence::app {
namespace {

PolicyOutput refused(const Error& error) {
  return {.code = PolicyExit::Unusable, .out = "", .err = policy_error_text(error)};
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

Result<policy::Subject> find_policy(const std::string& name, const PolicyGround& ground) {
  std::vector<std::string_view> known;
  for (const policy::BuiltinPolicy& builtin : policy::builtin_policies()) {
    if (builtin.name == name) {
      return policy::load_subject(std::string(builtin.source), builtin.file(), ground.clock);
    }
    known.push_back(builtin.name);
  }
  if (name.find('/') == std::string::npos && !name.ends_with(".lua") && !os::is_folder(name)) {
    return failure(
        Error::Kind::NotFound,
        "no built-in policy is called '" + escaped(name, 64) + "'" + did_you_mean(name, known),
        "`moonfence policy list` shows them; a file is named with its .lua");
  }
  const std::string path = os::is_folder(name) ? name + "/policy.lua" : name;
  auto source = ground.files.read(path);
  return source ? policy::load_subject(*source, path, ground.clock)
                : Result<policy::Subject>(failure(source.error()));
}

}  // namespace

PolicyOutput list_policies(const PolicyGround& ground) {
  PolicyOutput output;
  for (const policy::BuiltinPolicy& builtin : policy::builtin_policies()) {
    const auto subject =
        policy::load_subject(std::string(builtin.source), builtin.file(), ground.clock);
    if (!subject) {
      output.err += policy_error_text(subject.error());
      output.code = PolicyExit::Unusable;
      continue;
    }
    output.out += padded(subject->policy.name(), 16) + " " + padded(subject->policy.version(), 8) +
                  " " + subject->policy.summary() + "\n";
  }
  return output;
}

PolicyOutput describe_policy(const PolicyOptions& options, const PolicyGround& ground) {
  const auto subject = find_policy(options.paths.front(), ground);
  return subject ? PolicyOutput{.out = policy::policy_page(subject->policy, subject->map)}
                 : refused(subject.error());
}

PolicyOutput write_editor_files(const PolicyOptions& options) {
  if (options.markdown) {
    return {.out = policy::reference_page()};
  }
  const std::array<std::pair<const char*, std::string>, 3> files = {
      {{"lib/fence.lua", policy::lua_annotations()},
       {".luarc.json", policy::luarc()},
       {".luacheckrc", policy::luacheckrc()}}};
  PolicyOutput output;
  for (const auto& [name, text] : files) {
    if (options.out.empty()) {
      output.out += std::string("-- ") + name + "\n" + text + "\n";
      continue;
    }
    const std::string path = options.out + "/" + name;
    if (auto written = os::write_file(path, text, true); !written) {
      return refused(written.error());
    }
    output.out += "wrote " + path + "\n";
  }
  return output;
}

namespace {

Error not_shipped(const std::string& name) {
  const std::vector<std::string_view> names = policy::shipped_names();
  std::string all;
  for (const std::string_view each : names) {
    all += (all.empty() ? "" : ", ") + std::string(each);
  }
  return {.text = "--from: no shipped policy is called '" + escaped(name, 64) + "'" +
                  did_you_mean(name, names),
          .hint = "one of: " + all};
}

}  // namespace

PolicyOutput begin_policy(const PolicyOptions& options) {
  const std::string& name = options.paths.front();
  if (!policy::is_policy_name(name)) {
    return {.code = PolicyExit::Usage,
            .out = "",
            .err = policy_error_text(
                Error{.text = "'" + escaped(name, 64) +
                              "' cannot name a policy; a name is [a-z][a-z0-9-]* of at most 40 "
                              "letters",
                      .hint = "for example my-db"})};
  }
  std::vector<std::pair<std::string, std::string>> files = {
      {"policy.lua", policy::skeleton_policy(name)},
      {"policy_test.lua", policy::skeleton_test(name)}};
  if (!options.from.empty()) {
    files = policy::shipped_as(options.from, name);
    if (files.empty()) {
      return {.code = PolicyExit::Usage,
              .out = "",
              .err = policy_error_text(not_shipped(options.from))};
    }
  }
  const std::string folder = (options.out.empty() ? "" : options.out + "/") + name;
  PolicyOutput output;
  for (const auto& [file, text] : files) {
    std::string path = folder;
    path.append("/").append(file);
    if (auto written = os::write_file(path, text, false); !written) {
      return refused(written.error());
    }
    output.out.append("wrote ").append(path).append("\n");
  }
  output.out += "next: moonfence policy test " + folder + "\n";
  return output;
}

}  // namespace moonfence::app
