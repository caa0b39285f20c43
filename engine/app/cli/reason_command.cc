#include "app/cli/reason_command.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "audit/explanation.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

constexpr std::size_t kWidth = 36;  // of the longest code, and two

constexpr const char* kFooter = R"(
Examples:
  moonfence reason awaiting_taint
      What it means and what to do about it.
  moonfence reason
      All of them.

Exit codes: 0 printed, 2 there is no such reason.)";

std::string row_of(audit::Reason reason) {
  std::string row(audit::code(reason));
  row.resize(std::max(row.size() + 1, kWidth), ' ');
  return row + audit::explain(reason).when + "\n";
}

}  // namespace

void add_reason(CLI::App& app, ReasonOptions& options) {
  CLI::App* reason = app.add_subcommand(
      "reason", "Explain a reason of the records, metrics and events, and what to do about it");
  reason->footer(kFooter);
  reason->add_option("CODE", options.code, "The reason, as the records have it");
}

ReasonAnswer reason_answer(const ReasonOptions& options) {
  if (options.code.empty()) {
    std::string text;
    for (const audit::Reason reason : audit::all_reasons()) {
      text += row_of(reason);
    }
    return {.known = true, .text = std::move(text)};
  }
  const auto reason = audit::find_reason(options.code);
  if (!reason) {
    return {.known = false,
            .text = "moonfence reason: there is no reason '" + escaped(options.code) +
                    "'\nrun `moonfence reason` for a list of all\n"};
  }
  const audit::Explanation explanation = audit::explain(*reason);
  return {.known = true,
          .text = std::string(audit::code(*reason)) + "\n  " + explanation.when +
                  "\nWhat to do\n  " + explanation.what_to_do + "\n"};
}

}  // namespace moonfence::app
