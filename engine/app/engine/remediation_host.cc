#include "app/engine/remediation_host.h"
