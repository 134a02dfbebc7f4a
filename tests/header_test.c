/* The public header is C99, and the library links to C. */
#include <deformkit/deformkit.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    deformkit_status status = deformkit_msda_forward(NULL, NULL, NULL, NULL, NULL, NULL);
    if (status != DEFORMKIT_NULL_ARGUMENT || strstr(deformkit_last_error(), "value") == NULL) {
        fprintf(stderr, "status %d: %s\n", (int)status, deformkit_last_error());
        return 1;
    }
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", DEFORMKIT_VERSION_MAJOR, DEFORMKIT_VERSION_MINOR, DEFORMKIT_VERSION_PATCH);
    return strcmp(deformkit_version(), version) == 0 && strcmp(deformkit_last_variant(), "") == 0 ? 0 : 1;
}
