#pragma once

// What all pages of the status page have in common: head, skip link, header, landmarks, footer.

#include <string>
#include <string_view>

#include "app/status/html.h"
#include "app/status/status_snapshot.h"

namespace moonfence::app {

// What a page is made from.
struct StatusView {
  const StatusSnapshot& snapshot;
  WallTime now{};
  bool refreshes = true;  // the page loads itself again; "?refresh=off" ends that
  Markup root;            // the way to the front page: "" or "../"
};

constexpr std::string_view kRefreshSeconds = "10";

struct StatusFrame {
  std::string title;        // of the window: the state first, so that a tab tells it
  std::string path;         // of this page, below the root
  bool may_refresh = true;  // there is something that can change
  Html main;
};
[[nodiscard]] std::string framed(const StatusView& view, const StatusFrame& frame);

// A page without a snapshot: the reasons, not found, not there yet.
[[nodiscard]] std::string bare_page(const std::string& title, const Html& main, Markup root);

}  // namespace moonfence::app
