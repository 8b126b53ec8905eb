/*
 * Where the daemon puts things in a container. The same words as hamid/hooks/abi/contract.py;
 * tests/native/test_page_layout.py compares.
 */
#pragma once

#define HAMID_LIMITS_DIR "/usr/local/hamid/limits"
#define HAMID_CONTROL_FILE "control.page"
#define HAMID_LIVE_FILE "live.page"
#define HAMID_USAGE_DIR "/usr/local/hamid/usage"
#define HAMID_USAGE_FILE "usage.page"

#define HAMID_ENV_LOG "HAMID_LOG"
