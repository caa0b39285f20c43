# Writes OUTPUT, the source file of audit::reasons_page(), from PAGE.
file(READ ${PAGE} text)
file(WRITE ${OUTPUT} "#include \"audit/explanation.h\"

namespace moonfence::audit {
namespace {

constexpr std::string_view kPage = R\"moonfence(${text})moonfence\";

}  // namespace

std::string_view reasons_page() {
  return kPage;
}

}  // namespace moonfence::audit
")
