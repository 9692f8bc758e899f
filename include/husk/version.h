/* The version people see. */
#pragma once

#define HUSK_VERSION "0.1.0"
