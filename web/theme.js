// Before the first paint: the colours that were chosen here last, else the system's.
(function () {
    try {
        const theme = JSON.parse(localStorage.getItem("hasten.theme"));
        if (theme === "light" || theme === "dark")
            document.documentElement.dataset.theme = theme;
    } catch {
        // nothing was kept
    }
})();
