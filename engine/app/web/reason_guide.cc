#include "app/web/reason_guide.h"

#include "app/web/status_assets.h"
#include "app/web/status_frame.h"
#include "audit/explanation.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

// "a | `b|c` | d": a bar inside code does not end a cell.
std::vector<std::string> cells_of(std::string_view row) {
  std::vector<std::string> cells = {""};
  bool code = false;
  for (const char byte : row) {
    code = code != (byte == '`');
    if (byte == '|' && !code) {
      cells.emplace_back();
    } else {
      cells.back() += byte;
    }
  }
  for (std::string& cell : cells) {
    cell = trimmed(cell);
  }
  return cells;
}

// Of "[text](target) rest", which begins the view: the text; the view goes on with the rest. "" for
// what is no link.
std::string_view take_link(std::string_view& text) {
  const auto end = text.find("](");
  const auto close = end == std::string_view::npos ? end : text.find(')', end);
  if (close == std::string_view::npos) {
    return {};
  }
  const std::string_view words = text.substr(1, end - 1);
  text.remove_prefix(close + 1);
  return words;
}

}  // namespace

std::vector<ReasonText> read_reasons(std::string_view document) {
  std::vector<ReasonText> rows;
  for (const std::string_view line : split(document, '\n')) {
    if (!line.starts_with("| `")) {
      continue;
    }
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != 5 || cells[1].size() < 3) {
      continue;
    }
    rows.push_back({.code = cells[1].substr(1, cells[1].size() - 2),
                    .when = cells[2],
                    .what_to_do = cells[3]});
  }
  return rows;
}

Html from_markdown(std::string_view text) {
  Html html;
  bool code = false;
  while (!text.empty()) {
    if (text[0] == '`') {
      html << (code ? Markup("</code>") : Markup("<code>"));
      code = !code;
      text.remove_prefix(1);
      continue;
    }
    if (text[0] == '[' && !code) {
      if (const std::string_view words = take_link(text); !words.empty()) {
        html << from_markdown(words);
        continue;
      }
    }
    const std::size_t next = text.find_first_of(code ? "`" : "`[", 1);
    html << text.substr(0, next);
    text.remove_prefix(next == std::string_view::npos ? text.size() : next);
  }
  if (code) {
    html << "</code>";
  }
  return html;
}

std::string reasons_page() {
  Html main;
  main << "<h1>What the reasons mean</h1>\n<table class=\"reasons\">\n<caption>Reasons, as they "
          "stand "
          "in records, metrics and events</caption>\n<thead><tr><th scope=\"col\">Reason</th><th "
          "scope=\"col\">When</th><th scope=\"col\">What to do</th></tr></thead>\n<tbody>\n";
  for (const ReasonText& reason : read_reasons(audit::reasons_page())) {
    main << "<tr id=\"" << reason.code << "\"><th scope=\"row\" data-label=\"Reason\"><code>"
         << reason.code << "</code></th><td data-label=\"When\">" << from_markdown(reason.when)
         << "</td><td data-label=\"What to do\">" << from_markdown(reason.what_to_do)
         << "</td></tr>\n";
  }
  main << "</tbody>\n</table>\n";
  return bare_page("What the reasons mean", main, "");
}

}  // namespace moonfence::app
