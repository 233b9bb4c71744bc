"""Source folder of ``kpro_standin``, which ``provision.testhost.wheel`` packs as a wheel of its own."""
