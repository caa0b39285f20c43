#include "policy/cases/coverage.h"

namespace moonfence::policy {
namespace {

std::string counted(std::size_t some, std::size_t all) {
  return std::to_string(some) + "/" + std::to_string(all);
}

// "12, 14-16".
std::string missing_lines(const Coverage& coverage) {
  std::string text;
  int first = 0;
  int last = 0;
  const auto close = [&] {
    if (first != 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(first) +
              (last == first ? "" : "-" + std::to_string(last));
    }
  };
  for (const int line : coverage.all.lines) {
    if (coverage.lines.contains(line)) {
      continue;
    }
    if (first == 0 || line != last + 1) {
      close();
      first = line;
    }
    last = line;
  }
  close();
  return text;
}

}  // namespace

void Coverage::add(const Trace& trace) {
  for (const int line : trace.lines) {
    if (all.lines.contains(line)) {
      lines.insert(line);
    }
  }
  if (trace.returned && all.verdicts.contains(*trace.returned)) {
    verdicts.insert(*trace.returned);
  }
}

bool Coverage::reaches(unsigned percent) const {
  return lines.size() * 100 >= all.lines.size() * percent &&
         verdicts.size() * 100 >= all.verdicts.size() * percent;
}

std::string Coverage::text() const {
  std::string text = "lines " + counted(lines.size(), all.lines.size());
  if (const std::string missing = missing_lines(*this); !missing.empty()) {
    text += " (not run: " + missing + ")";
  }
  text += ", verdicts " + counted(verdicts.size(), all.verdicts.size());
  std::string never;
  for (const VerdictSite& site : all.verdicts) {
    if (!verdicts.contains(site)) {
      never += (never.empty() ? "never returned: " : ", ") + ("fence." + site.name) + " at line " +
               std::to_string(site.line);
    }
  }
  return text + (never.empty() ? "" : " (" + never + ")");
}

}  // namespace moonfence::policy
