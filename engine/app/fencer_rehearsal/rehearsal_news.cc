#include "app/fencer_rehearsal/rehearsal_news.h"

namespace moonfence::app {

using kube::EventNews;

namespace {

EventNews news_of(const kube::Node& node) {
  return {.type = EventNews::Type::Normal,
          .regarding = {.api_version = "v1",
                        .kind = "Node",
                        .space = {},
                        .name = node.name.text(),
                        .uid = node.uid},
          .action = "SwitchOff",
          .reason = {},
          .note = {}};
}

}  // namespace

EventNews news_of_beginning(const kube::Node& node, const std::string& user,
                            const std::string& fencer) {
  EventNews news = news_of(node);
  news.reason = "FencerRehearsal";
  news.note = user + " has its machine switched off by fencer " + fencer +
              ", to see whether that works (moonfence fencer rehearse)";
  return news;
}

EventNews news_of_end(const kube::Node& node, bool proven, const std::string& text) {
  EventNews news = news_of(node);
  news.type = proven ? EventNews::Type::Normal : EventNews::Type::Warning;
  news.reason = proven ? "FencerProven" : "FencerNotProven";
  news.note = text;
  return news;
}

}  // namespace moonfence::app
