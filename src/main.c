/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/verb.h"

int main(int argc, char **argv)
{
    return verb_main(argc, argv);
}
